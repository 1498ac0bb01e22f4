import express from 'express'
import { adapterContract } from '../support/adapter-contract.js'
import { expressAdapter } from './express-service.js'

adapterContract('Express 5', expressAdapter(express))
