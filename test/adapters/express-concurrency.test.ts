import express from 'express'
import { describeBrokenOff, describeExpressConcurrency } from './express-concurrency.js'

describeExpressConcurrency('Express 5', express)
describeBrokenOff('Express 5', express)
