import { type Environment, oneOf } from '../environment.ts'

/** How Temporal and Berth authenticate each other. Certificates and keys are PEM, or paths of PEM files. */
interface TemporalTls {
  /** Certificate authority of Temporal's certificate; null = those that the system trusts. */
  ca: string | null
  certificate: string | null
  key: string | null
  /** The name in Temporal's certificate, when it is not the one in the address. */
  serverName: string | null
}

export interface TemporalSettings {
  /** `host:port`. */
  temporalAddress: string
  /** Null: plain text. */
  temporalTls: TemporalTls | null
  temporalApiKey: string | null
}

/** TLS is on as soon as one of its settings, or an API key, is given. Throws an Error that names the setting and what it accepts. */
export function temporalSettings(env: Environment): TemporalSettings {
  const tls: TemporalTls = {
    ca: env.TEMPORAL_TLS_CA ?? null,
    certificate: env.TEMPORAL_TLS_CERT ?? null,
    key: env.TEMPORAL_TLS_KEY ?? null,
    serverName: env.TEMPORAL_TLS_SERVER_NAME ?? null,
  }
  const temporalApiKey = env.TEMPORAL_API_KEY ?? null
  const mode = oneOf(env, 'TEMPORAL_TLS', ['auto', 'on', 'off'])
  const needsTls = temporalApiKey !== null || Object.values(tls).some(value => value !== null)
  if (mode === 'off' && needsTls)
    throw new Error(
      'The setting TEMPORAL_TLS is "off"; TEMPORAL_API_KEY and the other TEMPORAL_TLS settings require TLS.',
    )
  if (!tls.certificate !== !tls.key)
    throw new Error('The settings TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY must be set together, or neither.')
  return {
    temporalAddress: temporalAddress(env.TEMPORAL_ADDRESS),
    temporalTls: mode === 'on' || needsTls ? tls : null,
    temporalApiKey,
  }
}

const addressForm = /^(\[[0-9a-f:.]+\]|[^\s/:@?#[\]]+):(\d{1,5})$/i

function temporalAddress(setting: string | undefined): string {
  const address = setting ?? '127.0.0.1:7233'
  if (!addressForm.test(address) || Number(addressForm.exec(address)![2]) > 65_535)
    throw new Error(
      `The setting TEMPORAL_ADDRESS is "${address}"; it must be host:port, such as temporal.internal:7233.`,
    )
  return address
}
