import { describeStore } from '../../support/store-contract.js'
import { MapStore } from './map-store.js'

describeStore('a store that is written by the recipe', {
  make: clock => new MapStore(clock),
  promises: 1000,
  properties: 200,
})
