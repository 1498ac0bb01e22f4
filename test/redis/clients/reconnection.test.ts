import { describeReconnection } from '../../support/reconnection-contract.js'
import { CLIENTS } from '../../support/tested-clients.js'

describeReconnection(CLIENTS)
