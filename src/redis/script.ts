/** A script as it is sent to Redis, with the hash that the server knows it by. */
export interface Script {
  readonly name: string
  readonly sha1: string
  readonly source: string
}
