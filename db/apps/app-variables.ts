import { assertFits, type Variables } from '../../policy/apps/variables.ts'
import { CodedError } from '../../policy/errors.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import { type Db, sqlState, transaction } from '../database.ts'
import { statement } from '../statement.ts'

/** Identifies the row that a sealed value is bound to. */
export const variableBinding = (appId: string, name: string): string => `app_variables/${appId}/${name}`

/** The variables of an application at one moment. */
export interface StoredVariables {
  /** Counts every change. */
  version: number
  /** Those that can be decrypted, ordered by name. */
  values: Variables
  /** Names of those that cannot. */
  unreadable: string[]
}

interface VariableRow {
  variables_version: number
  name: string | null
  value_sealed: Buffer | null
}

const ofApp = statement<VariableRow>(
  'variables.of-app',
  `select a.variables_version, v.name, v.value_sealed
     from apps a left join app_variables v on v.app_id = a.id
    where a.id = $1 order by v.name collate "C"`,
)

/** Throws APP_NOT_FOUND. */
export async function readVariables(db: Db, keys: SealKeys, appId: string): Promise<StoredVariables> {
  const rows = await ofApp(db, [appId])
  if (!rows[0]) throw new CodedError('APP_NOT_FOUND')
  const values = new Map<string, string>()
  const unreadable: string[] = []
  for (const { name, value_sealed: sealed } of rows) {
    if (name === null || sealed === null) continue
    try {
      values.set(name, unseal(keys, sealed, variableBinding(appId, name)))
    } catch {
      unreadable.push(name)
    }
  }
  return { version: rows[0].variables_version, values, unreadable }
}

/** Throws READ_FAILED with the names of those that cannot be decrypted, and what to do. */
export function assertReadable(unreadable: readonly string[]): void {
  if (unreadable.length === 0) return
  const names = unreadable.slice(0, 5).map(name => name.slice(0, 64))
  const more = unreadable.length > names.length ? ` and ${unreadable.length - names.length} more` : ''
  throw new CodedError(
    'READ_FAILED',
    `Variables that cannot be decrypted: ${names.join(', ')}${more}. Set them again or remove them.`,
  )
}

export interface VariablesChange {
  /** Names that the change removes or sets: their old values need not be readable. */
  touches(name: string): boolean
  /** The variables after the change, from those that could be read. */
  apply(before: Variables): Variables
}

/**
 * Changes the variables of an application under its row's lock and resolves to all of them. Without a difference (`changed`) the version
 * stays. Throws ENV_BUSY when the row cannot be locked within a second, APP_NOT_FOUND, TOO_MANY_ENV_VARS, ENV_CONTENT_TOO_LONG, or
 * READ_FAILED when variables that stay cannot be decrypted.
 */
export async function changeVariables(
  db: Db,
  keys: SealKeys,
  appId: string,
  change: VariablesChange,
): Promise<{ variables: Variables; changed: boolean }> {
  try {
    return await transaction(db, async trx => {
      await trx.raw(`set local lock_timeout = '1s'`)
      await trx('apps').where({ id: appId }).forNoKeyUpdate().first('id')
      const before = await readVariables(trx, keys, appId)
      assertReadable(before.unreadable.filter(name => !change.touches(name)))
      const after = change.apply(before.values)
      assertFits(after)
      return { variables: after, changed: await write(trx, keys, appId, before, after) }
    })
  } catch (error) {
    if (sqlState(error) === '55P03') throw new CodedError('ENV_BUSY')
    throw error
  }
}

/** Writes only what changed, so that a value keeps the key and the version of its last change. Resolves to whether anything did. */
async function write(
  trx: Db,
  keys: SealKeys,
  appId: string,
  before: StoredVariables,
  after: Variables,
): Promise<boolean> {
  const removedNames = [...before.values.keys(), ...before.unreadable].filter(name => !after.has(name))
  const changes = [...after].filter(([name, value]) => before.values.get(name) !== value)
  if (removedNames.length === 0 && changes.length === 0) return false
  if (removedNames.length) await trx('app_variables').where({ app_id: appId }).whereIn('name', removedNames).delete()
  if (changes.length)
    await trx('app_variables')
      .insert(
        changes.map(([name, value]) => ({
          app_id: appId,
          name,
          value_sealed: seal(keys, value, variableBinding(appId, name)),
        })),
      )
      .onConflict(['app_id', 'name'])
      .merge(['value_sealed'])
  await trx('apps').where({ id: appId }).increment('variables_version')
  return true
}
