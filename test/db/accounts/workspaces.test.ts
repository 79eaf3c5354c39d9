import test from 'ava'
import { findSharedApp, shareApp, sharedAppIds, unshareApp } from '../../../db/accounts/workspace-apps.ts'
import { changeRole, leaveWorkspace, removeMember } from '../../../db/accounts/workspace-members.ts'
import { createWorkspace, deleteWorkspace } from '../../../db/accounts/workspaces.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import { transaction } from '../../../db/database.ts'
import { Notifications } from '../../../db/notifications.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { CodedError } from '../../../policy/errors.ts'
import { rows } from '../../kit/rows/rows.ts'
import { makeWorkspace } from '../../kit/rows/workspaces.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const undo: (() => Promise<unknown>)[] = []
test.after.always('stop listening', async () => {
  for (const step of undo.reverse()) await step()
})

/** An account with two applications and a workspace that shares the first with two members. */
async function team() {
  const { db } = await database
  const make = rows(db)
  await make.host('big', { memoryMb: 100_000 })
  const [ana, bob, cleo] = [await make.user(), await make.user(), await make.user()]
  const [{ app }, { app: second }] = [await make.app(ana.id), await make.app(ana.id)]
  const members = [[bob, 'admin'] as const, [cleo, 'view'] as const]
  return { db, ana, bob, cleo, app, second, workspace: await makeWorkspace(db, ana, { members, apps: [app] }) }
}

/** Ids that were announced on `access` while `work` was done. */
async function announced(work: () => Promise<unknown>): Promise<string[]> {
  const { db, url } = await database
  const notifications = new Notifications(url, ['access'])
  const heard: string[] = []
  const over = new Promise<void>(resolve => {
    notifications.on('notify', (_, payload) => {
      if (payload === 'over') resolve()
      else heard.push(payload)
    })
  })
  const ready = new Promise(resolve => notifications.once('ready', () => resolve(undefined)))
  await notifications.open()
  await ready
  undo.push(() => notifications.close())
  await work()
  await db.raw(`select pg_notify('access', 'over')`)
  await over
  return heard.sort()
}

const refusal = (code: string) => ({ instanceOf: CodedError, code })

test.serial('a change announces exactly the accounts that may see less than before', async t => {
  const { db, ana, bob, cleo, app, workspace } = await team()
  const both = [bob.id, cleo.id].sort()
  const membership = { workspace, memberId: bob.id }
  t.deepEqual(await announced(() => transaction(db, trx => changeRole(trx, membership, 'view'))), [bob.id])
  t.deepEqual(await announced(() => transaction(db, trx => unshareApp(trx, workspace, app.id))), both)
  t.deepEqual(await announced(() => transaction(db, trx => shareApp(trx, workspace, app.id))), [])
  const undone = transaction(db, async trx => {
    await changeRole(trx, membership, 'admin')
    throw new Error('undone')
  })
  t.deepEqual(await announced(() => undone.catch(() => {})), [])
  t.deepEqual(await announced(() => removeMember(db, ana.id, workspace.id, bob.id)), [bob.id])
  t.deepEqual(await announced(() => leaveWorkspace(db, cleo.id, workspace.id)), [cleo.id])
  const again = await makeWorkspace(db, ana, { members: [[bob, 'view']] })
  t.deepEqual(await announced(() => deleteWorkspace(db, ana.id, again.id)), [bob.id])
})

test.serial('a deleted application leaves its workspaces, and cannot be shared during the deletion', async t => {
  const { db, bob, app, second, workspace } = await team()
  await removeApp(db, app.id)
  t.deepEqual(await sharedAppIds(db, workspace.id), [])
  t.is(await findSharedApp(db, bob.id, app.id, null), undefined)
  let share: Promise<unknown> = Promise.resolve()
  await transaction(db, async trx => {
    await trx('apps').where({ id: second.id }).delete()
    share = t.throwsAsync(
      transaction(db, other => shareApp(other, workspace, second.id)),
      refusal('APP_NOT_FOUND'),
    )
    await new Promise(resolve => setTimeout(resolve, 100))
  })
  await share
})

test.serial('a member who is removed during a change of role is removed, in either order', async t => {
  const { db, ana, bob, workspace } = await team()
  const membership = { workspace, memberId: bob.id }
  const [changed, removed] = await Promise.allSettled([
    transaction(db, trx => changeRole(trx, membership, 'maintain')),
    removeMember(db, ana.id, workspace.id, bob.id),
  ])
  t.is(removed.status, 'fulfilled')
  if (changed.status === 'rejected') t.like(changed.reason, { code: 'MEMBER_NOT_FOUND' })
  t.is(await db('workspace_members').where({ user_id: bob.id }).first(), undefined)
  await t.throwsAsync(removeMember(db, ana.id, workspace.id, bob.id), refusal('MEMBER_NOT_FOUND'))
})

test.serial('without a workspace the highest of several roles counts', async t => {
  const { db, ana, bob, cleo, app, workspace } = await team()
  const other = await makeWorkspace(db, ana, { members: [[cleo, 'maintain']], apps: [app] })
  const role = async (user: { id: string }, id: string | null) => (await findSharedApp(db, user.id, app.id, id))?.role
  t.deepEqual(
    [await role(cleo, null), await role(cleo, workspace.id), await role(cleo, other.id)],
    ['maintain', 'view', 'maintain'],
  )
  t.deepEqual([await role(bob, null), await role(bob, other.id)], ['admin', undefined])
  t.deepEqual([await role(ana, other.id), await role(ana, 'b'.repeat(40))], ['owner', undefined])
})

test('an account that is blocked or deleted meanwhile gets no workspace', async t => {
  const { db } = await database
  const { id } = await rows(db).user()
  await db('users').where({ id }).update({ plan: 'pro-12', blocked_at: new Date() })
  for (const owner of [id, '0'.repeat(18)])
    await t.throwsAsync(
      transaction(db, trx => createWorkspace(trx, defaultPlans, owner, 'team')),
      { code: 'WORKSPACE_CREATION_FAILED' },
    )
  t.deepEqual(await db('workspaces').where({ owner_id: id }), [])
})
