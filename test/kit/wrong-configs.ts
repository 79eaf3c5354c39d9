import type { ErrorCode } from '../../policy/errors.ts'
import type { ConfigKeys } from './zips.ts'

/** What a configuration file is refused for wherever it comes from, by the keys that are wrong; null = the key is missing. */
export const wrongConfigs: readonly (readonly [ErrorCode, ConfigKeys])[] = [
  ['MISSING_DISPLAY_NAME', { DISPLAY_NAME: null }],
  ['INVALID_DISPLAY_NAME', { DISPLAY_NAME: 'x'.repeat(33) }],
  ['MISSING_MAIN', { MAIN: null }],
  ['INVALID_MAIN', { MAIN: 'index.xyz' }],
  ['MISSING_MEMORY', { MEMORY: null }],
  ['INVALID_MEMORY', { MEMORY: 10 }],
  ['MISSING_VERSION', { VERSION: null }],
  ['INVALID_VERSION', { VERSION: 'newest' }],
  ['INVALID_DESCRIPTION', { DESCRIPTION: 'x'.repeat(281) }],
  ['INVALID_SUBDOMAIN', { SUBDOMAIN: '-a', MEMORY: 512 }],
  ['SUBDOMAIN_TAKEN', { SUBDOMAIN: 'api', MEMORY: 512 }],
  ['INVALID_START', { START: 'x'.repeat(257) }],
  ['INVALID_AUTORESTART', { AUTORESTART: 'yes' }],
  ['INVALID_RUNTIME', { RUNTIME: 'cobol' }],
  ['INVALID_HEALTH', { HEALTH: 'ready' }],
]
