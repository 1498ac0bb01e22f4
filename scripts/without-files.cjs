// For `jest --filter`: leaves out the test files that SPILLWAY_LEFT_OUT lists, and those of SPILLWAY_LEFT_OUT_FOLDER.
const { relative } = require('node:path')

/** @param {string[]} files */
module.exports = async files => {
  const leftOut = new Set(JSON.parse(process.env.SPILLWAY_LEFT_OUT ?? '[]'))
  const folder = process.env.SPILLWAY_LEFT_OUT_FOLDER
  const names = files.map(file => relative(process.cwd(), file))
  return { filtered: files.filter((_, i) => !leftOut.has(names[i]) && !(folder && names[i].startsWith(folder))) }
}
