import type { FastifyInstance } from 'fastify'
import fastify4 from 'fastify4'
import { describePlugin } from '../http/adapters/fastify-plugin.js'
import { fastifyAdapter } from '../http/adapters/fastify-service.js'
import { adapterContract } from '../support/adapter-contract.js'

adapterContract(
  'Fastify 4',
  fastifyAdapter(options => fastify4(options as object) as unknown as FastifyInstance),
)

describePlugin('Fastify 4', options => fastify4(options as object) as unknown as FastifyInstance)
