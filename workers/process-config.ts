import { type Config, type Environment, parseConfig } from '../policy/config.ts'
import { refusePlainHttp } from '../policy/installation/plain-http.ts'

/** The settings of a process. Throws an Error that keeps it from starting when they are invalid, or would expose keys to others. */
export function processConfig(env: Environment): Config {
  const config = parseConfig(env, process.cwd())
  refusePlainHttp(config)
  return config
}
