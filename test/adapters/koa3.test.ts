import Koa from 'koa'
import { adapterContract } from '../support/adapter-contract.js'
import { koaAdapter } from './koa-service.js'

adapterContract('Koa 3', koaAdapter(Koa))
