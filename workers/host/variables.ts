import { refusal } from '../../activities/failures.ts'
import type { AppHostOptions } from '../../activities/hosts/app-host-options.ts'
import { assertReadable, readVariables } from '../../db/apps/app-variables.ts'
import type { Db } from '../../db/database.ts'
import type { Config } from '../../policy/config.ts'
import { CodedError } from '../../policy/errors.ts'

/**
 * The variables that an application's container is started with. Rejects permanently with READ_FAILED when a variable cannot be
 * decrypted: a program without one of its secrets may do harm. A static site has no program, and gets none.
 */
export function startVariables(db: Db, { sealKeys }: Pick<Config, 'sealKeys'>): AppHostOptions['variables'] {
  return async ({ appId, language }) => {
    try {
      const { version, values, unreadable } = await readVariables(db, sealKeys, appId)
      if (language === 'static') return { version, values: {} }
      assertReadable(unreadable)
      return { version, values: Object.fromEntries(values) }
    } catch (error) {
      throw error instanceof CodedError ? refusal(error.code, error.message) : error
    }
  }
}
