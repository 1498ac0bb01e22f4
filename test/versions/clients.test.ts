import { describeClients } from '../support/clients-contract.js'
import { OLDER_CLIENTS } from './older-clients.js'

describeClients(OLDER_CLIENTS)
