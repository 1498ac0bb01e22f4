import fastify from 'fastify'
import { adapterContract } from '../../support/adapter-contract.js'
import { describePlugin } from './fastify-plugin.js'
import { fastifyAdapter } from './fastify-service.js'

const create = (options: unknown) => fastify(options as object)

adapterContract('Fastify 5', fastifyAdapter(create))
describePlugin('Fastify 5', create)
