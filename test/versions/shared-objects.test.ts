import { OLDER_CLIENTS } from '../support/older-clients.js'
import { describeSharedObjects } from '../support/shared-objects-contract.js'

describeSharedObjects(OLDER_CLIENTS)
