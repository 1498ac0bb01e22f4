import { describeClients } from '../support/clients-contract.js'
import { OLDER_CLIENTS } from '../support/older-clients.js'

describeClients(OLDER_CLIENTS)
