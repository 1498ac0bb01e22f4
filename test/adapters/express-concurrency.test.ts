import express from 'express'
import { describeExpressConcurrency } from './express-concurrency.js'

describeExpressConcurrency('Express 5', express)
