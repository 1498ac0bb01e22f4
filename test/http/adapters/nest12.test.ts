import 'reflect-metadata'
import * as common from '@nestjs/common'
import * as core from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express from 'express'
import * as ours from '../../../src/http/adapters/nest.js'
import { adapterContract } from '../../support/adapter-contract.js'
import { describeModule } from './nest-module.js'
import { nestAdapter, type TrustProxy } from './nest-service.js'

const onExpress = (trustProxy: TrustProxy) => {
  const app = express()
  if (trustProxy) app.set('trust proxy', trustProxy === 'anybody' || 1)
  return new ExpressAdapter(app)
}
const onFastify = (trustProxy: TrustProxy) =>
  new FastifyAdapter({ trustProxy: trustProxy === true ? 'loopback' : trustProxy === 'anybody' })

adapterContract('NestJS 12 on Express', nestAdapter({ common, core, ours, platform: onExpress, on: 'Express' }))

describeModule('NestJS 12', { common, core, ours }, { Express: onExpress, Fastify: onFastify })
