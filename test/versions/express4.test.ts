import express from 'express4'
import { expressAdapter } from '../http/adapters/express-service.js'
import { adapterContract } from '../support/adapter-contract.js'

adapterContract('Express 4', expressAdapter(express))
