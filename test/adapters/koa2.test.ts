import Koa from 'koa2'
import { adapterContract } from '../support/adapter-contract.js'
import { koaAdapter } from './koa-service.js'

adapterContract('Koa 2', koaAdapter(Koa))
