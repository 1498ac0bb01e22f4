// Imported before all that is simulated: some modules keep the timers that they find.
import { install } from './world.js'

install()
