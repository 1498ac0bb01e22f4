import { describeClients } from '../../support/clients-contract.js'
import { CLIENTS } from '../../support/tested-clients.js'

describeClients(CLIENTS)
