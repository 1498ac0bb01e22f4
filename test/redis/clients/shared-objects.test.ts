import { describeSharedObjects } from '../../support/shared-objects-contract.js'
import { CLIENTS } from '../../support/tested-clients.js'

describeSharedObjects(CLIENTS)
