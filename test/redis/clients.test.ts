import { describeClients } from '../support/clients-contract.js'
import { CLIENTS } from '../support/tested-clients.js'

// ioredis passes the contract of stores in test/stores/redis, with more random traffic.
describeClients(CLIENTS, /ioredis/)
