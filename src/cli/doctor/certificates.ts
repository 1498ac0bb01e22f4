import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { type Arguments, type Option, UsageError } from '../arguments.js'
import type { Address } from '../redis-address.js'
import { shownGiven } from '../shown-given.js'

/** Certificates and key of a TLS connection, as PEM. */
export interface Certificates {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

/** The address of a server, with the certificates of both sides. */
export interface SecureAddress extends Address {
  readonly certificates: Certificates
}

export const CERTIFICATE_OPTIONS = {
  cacert: { value: 'a file of certificates in PEM', example: '--cacert ca.pem' },
  cert: { value: 'a file with a certificate in PEM', example: '--cert client.pem --key client.key' },
  key: { value: 'a file with a private key in PEM', example: '--cert client.pem --key client.key' },
} as const satisfies Record<string, Option>

/** Reads the files that `--cacert`, `--cert` and `--key` name. `UsageError` if they cannot be read or used. */
export function readCertificates(given: Arguments, tls: boolean): Certificates {
  const [ca, cert, key] = (['cacert', 'cert', 'key'] as const).map(option => readFile(given, option))
  if (ca === undefined && cert === undefined && key === undefined) return {}
  if (!tls) {
    throw new UsageError(
      'given certificates for redis:, expected them with TLS, like --redis rediss://redis.example:6380',
    )
  }
  if ((cert === undefined) !== (key === undefined)) {
    const [one, other] = cert === undefined ? ['key', 'cert'] : ['cert', 'key']
    throw new UsageError(`--${one}: given without --${other}, expected both, like ${CERTIFICATE_OPTIONS.cert.example}`)
  }
  const certificates = { ca, cert, key }
  try {
    createSecureContext(certificates)
  } catch (error) {
    throw new UsageError(`the certificates cannot be used: ${(error as Error).message}, expected PEM`, { cause: error })
  }
  return certificates
}

function readFile(given: Arguments, option: keyof typeof CERTIFICATE_OPTIONS): Buffer | undefined {
  const path = given.values(option)[0]
  if (path === undefined) return undefined
  try {
    return readFileSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const { value, example } = CERTIFICATE_OPTIONS[option]
    throw new UsageError(`--${option}: cannot read ${shownGiven(path)} (${code}), expected ${value}, like ${example}`)
  }
}
