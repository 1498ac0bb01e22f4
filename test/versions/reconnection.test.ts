import { describeReconnection } from '../support/reconnection-contract.js'
import { OLDER_CLIENTS } from './older-clients.js'

describeReconnection(OLDER_CLIENTS)
