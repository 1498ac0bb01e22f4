import { describeSharedObjects } from '../support/shared-objects-contract.js'
import { OLDER_CLIENTS } from './older-clients.js'

describeSharedObjects(OLDER_CLIENTS)
