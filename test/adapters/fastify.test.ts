import fastify from 'fastify'
import { describePlugin } from './fastify-plugin.js'

describePlugin('Fastify 5', options => fastify(options as object))
