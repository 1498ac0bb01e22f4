import express from 'express'
import { adapterContract } from '../../support/adapter-contract.js'
import { describeBrokenOff, describeExpressConcurrency } from './express-concurrency.js'
import { expressAdapter } from './express-service.js'

adapterContract('Express 5', expressAdapter(express))
describeExpressConcurrency('Express 5', express)
describeBrokenOff('Express 5', express)
