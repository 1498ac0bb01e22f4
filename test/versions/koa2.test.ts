import Koa from 'koa2'
import { koaAdapter } from '../http/adapters/koa-service.js'
import { adapterContract } from '../support/adapter-contract.js'

adapterContract('Koa 2', koaAdapter(Koa))
