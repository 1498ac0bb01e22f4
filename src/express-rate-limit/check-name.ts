/** The checks, by their names in express-rate-limit. */
export type CheckName =
  | 'ip'
  | 'trustProxy'
  | 'xForwardedForHeader'
  | 'forwardedHeader'
  | 'positiveHits'
  | 'unsharedStore'
  | 'singleCount'
  | 'limit'
  | 'draftPolliHeaders'
  | 'onLimitReached'
  | 'headersDraftVersion'
  | 'headersResetTime'
  | 'knownOptions'
  | 'validationsConfig'
  | 'creationStack'
  | 'ipv6Subnet'
  | 'ipv6SubnetOrKeyGenerator'
  | 'keyGeneratorIpFallback'
  | 'windowMs'

/** The enabled checks; `default` applies to those that are not named. */
export type EnabledValidations = { [name in CheckName | 'default']?: boolean }
