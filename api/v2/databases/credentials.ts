import { z } from 'zod'
import { databasePasswordKey, readClientCertificate, trustedAuthorities } from '../../../db/databases/authorities.ts'
import type { DatabaseRow } from '../../../db/databases/databases.ts'
import { rotatedTo } from '../../../db/databases/password-rotation.ts'
import { databasePassword } from '../../../policy/databases/passwords.ts'
import { CodedError, type ErrorCode } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import type { Services } from '../../services.ts'
import { runDatabaseCommand } from '../apps/command.ts'
import { assertReachable } from '../snapshots/snapshots.ts'

/** Contract 12.14: key, certificate and authority, with which a client verifies the server. */
export const getDatabaseCertificate = endpoint({
  name: 'databases.certificate',
  method: 'GET',
  path: '/v2/databases/{databaseId}/credentials/certificate',
  summary: 'Read the certificate with which clients connect to a database',
  auth: { scope: 'databases:credentials', database: true },
  response: z.object({ certificate: z.string() }),
  errors: ['DATABASE_NOT_RUNNING', 'READ_FAILED'],
  async handle({ database }, services) {
    assertRunning(database)
    return { certificate: await certificateOf(database, services) }
  },
})

const resetCodes = ['DATABASE_NOT_RUNNING', 'RESET_FAILED'] as const satisfies readonly ErrorCode[]

/** Contract 12.15: answers when the database accepts the new password, or serves the new certificate, and only this. */
export const resetDatabaseCredentials = endpoint({
  name: 'databases.reset',
  method: 'POST',
  path: '/v2/databases/{databaseId}/credentials/reset',
  summary: 'Replace the password or the certificate of a database',
  auth: { scope: 'databases:credentials', database: true },
  operation: true,
  body: z.object({ reset: z.enum(['password', 'certificate'], { error: 'INVALID_RESET_TYPE' }) }),
  response: z.object({ password: z.string() }).optional(),
  errors: ['INVALID_RESET_TYPE', ...resetCodes, 'CLUSTER_UNAVAILABLE'],
  async handle(call, services) {
    const { database, body } = call
    assertRunning(database)
    await assertReachable(database.host_id, services)
    const kind = body.reset === 'password' ? 'rotate' : 'certify'
    const command = { kind, input: {}, failure: 'RESET_FAILED', codes: resetCodes } as const
    const { input } = await runDatabaseCommand(call, services, command)
    if (kind === 'certify') return undefined
    // Not what the row has by now: the next reset may be under way, and fail.
    return { password: await passwordOf({ id: database.id, password_generation: rotatedTo(input) }, services) }
  },
})

function assertRunning({ status }: DatabaseRow): void {
  if (status !== 'running') throw new CodedError('DATABASE_NOT_RUNNING')
}

type Keys = Pick<Services, 'db' | 'config'>

/** The password of a generation, which is stored nowhere. */
export async function passwordOf(
  { id, password_generation: generation }: Pick<DatabaseRow, 'id' | 'password_generation'>,
  { db, config }: Keys,
): Promise<string> {
  return databasePassword(await databasePasswordKey(db, config.sealKeys), id, generation)
}

/** Base64 of PEM: key, certificate, authority, and the next authority where there is one already. Throws READ_FAILED. */
export async function certificateOf(
  database: DatabaseRow,
  { db, config }: Keys,
  now: Date = new Date(),
): Promise<string> {
  const own = readClientCertificate(database, config.sealKeys)
  const others = (await trustedAuthorities(db, now)).filter(pem => !own.includes(pem.trim()))
  return Buffer.from([own, ...others].join('')).toString('base64')
}
