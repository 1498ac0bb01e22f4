import type { FastifyInstance } from 'fastify'
import fastify4 from 'fastify4'
import { adapterContract } from '../support/adapter-contract.js'
import { fastifyAdapter } from './fastify-service.js'

adapterContract(
  'Fastify 4',
  fastifyAdapter(options => fastify4(options as object) as unknown as FastifyInstance),
)
