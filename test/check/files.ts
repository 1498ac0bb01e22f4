export { filesOf, root } from '../support/files.js'
