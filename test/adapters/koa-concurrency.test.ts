import Koa from 'koa'
import { describeKoaConcurrency } from './koa-concurrency.js'

describeKoaConcurrency('Koa 3', Koa)
