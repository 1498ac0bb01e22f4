import { OLDER_CLIENTS } from '../support/older-clients.js'
import { describeReconnection } from '../support/reconnection-contract.js'

describeReconnection(OLDER_CLIENTS)
