import type { Environment } from '../environment.ts'

/** What lines of the access log name a proxy by, and where it is. */
export interface EdgePlace {
  name: string
  /** Null: the operator has not said. */
  location: { city: string; country: string } | null
}

/** EDGE_NAME and EDGE_LOCATION. Throws an Error that names the setting and what it accepts. */
export function edgePlace(env: Environment): EdgePlace {
  const [setting, name] = env.EDGE_NAME ? ['EDGE_NAME', env.EDGE_NAME] : ['HOST_NAME', env.HOST_NAME ?? 'local']
  if (!/^[\w.-]{1,64}$/.test(name))
    throw new Error(`The setting ${setting} is "${name}"; it must be 1 to 64 letters, digits, "_", "." or "-".`)
  return { name, location: env.EDGE_LOCATION === undefined ? null : locationIn(env.EDGE_LOCATION) }
}

function locationIn(text: string): EdgePlace['location'] {
  const [, city, country] = /^([^,"\\]{1,64}), ([A-Z]{2})$/.exec(text) ?? []
  if (!city || !country)
    throw new Error(
      `The setting EDGE_LOCATION is "${text}"; it must be like "Lisbon, PT": a city and the code of its country.`,
    )
  return { city, country }
}
