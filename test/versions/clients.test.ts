import { describeClients } from '../support/clients-contract.js'
import { OLDER_CLIENTS } from '../support/older-clients.js'

// ioredis 5 passes the contract of stores in ioredis5.test.ts, with more random traffic. The first versions of the ranges do on one server.
describeClients(OLDER_CLIENTS, /^ioredis 5$|^a cluster of .+ (5\.0|4\.6|0\.2)$/)
