import 'reflect-metadata'
import * as common from '@nestjs/common'
import * as core from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import * as ours from '../../src/http/adapters/nest.js'
import { nestAdapter, type TrustProxy } from '../http/adapters/nest-service.js'
import { adapterContract } from '../support/adapter-contract.js'

const platform = (trustProxy: TrustProxy) =>
  new FastifyAdapter({ trustProxy: trustProxy === true ? 'loopback' : trustProxy === 'anybody' })

adapterContract('NestJS 12 on Fastify', nestAdapter({ common, core, ours, platform, on: 'Fastify' }))
