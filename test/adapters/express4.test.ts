import express from 'express4'
import { adapterContract } from '../support/adapter-contract.js'
import { expressAdapter } from './express-service.js'

adapterContract('Express 4', expressAdapter(express))
