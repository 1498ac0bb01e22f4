// The packages of NestJS 11 are installed as nest11-common, nest11-core …, and find each other here.
/** @param {string} path @param {{ basedir: string, defaultResolver(path: string, options: object): string }} options */
module.exports = (path, options) => {
  const own = /[\\/]nest11-/.test(options.basedir) ? path.replace(/^@nestjs\//, 'nest11-') : path
  return options.defaultResolver(own, options)
}
