// For `jest --filter`: leaves out the test files that SPILLWAY_LEFT_OUT lists.
const { relative } = require('node:path')

/** @param {string[]} files */
module.exports = async files => {
  const leftOut = new Set(JSON.parse(process.env.SPILLWAY_LEFT_OUT ?? '[]'))
  return { filtered: files.filter(file => !leftOut.has(relative(process.cwd(), file))) }
}
