import fastify from 'fastify'
import { adapterContract } from '../support/adapter-contract.js'
import { fastifyAdapter } from './fastify-service.js'

adapterContract(
  'Fastify 5',
  fastifyAdapter(options => fastify(options as object)),
)
