import { type Db, sqlState, transaction } from '../database.ts'
import { statement } from '../statement.ts'
import { deployingRoles } from './deploy-rights.ts'
import { afterPushes, announceSources, type WhenLocked } from './webhooks.ts'

export interface GitMember {
  id: number
  login: string
}

/** An installation that one account may use. */
export interface BoundInstallation {
  id: number
  /** Login that the app is installed for. */
  account: string
  /** The member of the provider who connected it. */
  member: GitMember
}

/** Binds installations to an account, for the person who may see them at the provider; binding again renews it. */
export async function bindInstallations(
  db: Db,
  userId: string,
  member: GitMember,
  installations: readonly { id: number; account: string }[],
): Promise<void> {
  if (installations.length === 0) return
  const rows = installations.map(({ id, account }) => ({
    user_id: userId,
    id,
    account,
    member: member.login,
    member_id: member.id,
  }))
  await transaction(db, trx =>
    trx('git_installations').insert(rows).onConflict(['user_id', 'id']).merge(['account', 'member', 'member_id']),
  )
}

export async function listInstallations(db: Db, userId: string): Promise<BoundInstallation[]> {
  const rows = await db('git_installations').where({ user_id: userId }).orderBy('id')
  return rows.map(row => ({
    id: Number(row.id),
    account: row.account,
    member: { id: Number(row.member_id), login: row.member },
  }))
}

/**
 * The app was removed at the provider: deletes the installation and all its links, for every account. Resolves to the ids of the
 * applications that were linked.
 */
export async function forgetInstallation(db: Db, installationId: number): Promise<string[]> {
  return transaction(db, async trx => {
    const links = await trx('git_links').where({ installation_id: installationId }).select('app_id')
    await trx('git_installations').where({ id: installationId }).delete()
    return announceUnlinked(trx, links)
  })
}

/** An installation no longer covers these repositories: deletes their links. Resolves as `forgetInstallation`. */
export async function unlinkRepositories(db: Db, installationId: number, repositoryIds: number[]): Promise<string[]> {
  return transaction(db, async trx => {
    const links = await trx('git_links')
      .where({ installation_id: installationId })
      .whereIn('repository_id', repositoryIds)
      .delete()
      .returning('app_id')
    return announceUnlinked(trx, links)
  })
}

async function announceUnlinked(db: Db, links: { app_id: string }[]): Promise<string[]> {
  for (const { app_id } of links) await announceSources(db, app_id)
  return links.map(link => link.app_id)
}

export interface NewLink {
  appId: string
  userId: string
  installationId: number
  repository: { id: number; fullName: string; cloneUrl: string }
  branch: string
  whenLocked?: WhenLocked
  /** A part of the transaction, where the link is stored. */
  record?: (trx: Db) => Promise<void>
}

export type LinkOutcome =
  | { kind: 'linked' }
  /** This application has a link already. */
  | { kind: 'configured' }
  /** Repository and branch belong to this application. */
  | { kind: 'taken'; appId: string; name: string; ownerId: string }
  /** The application or the installation was deleted meanwhile. */
  | { kind: 'gone'; what: 'app' | 'installation' }

/** Links a repository and branch to an application; one of several concurrent calls wins. */
export async function linkRepository(db: Db, link: NewLink): Promise<LinkOutcome> {
  const { appId, userId, installationId, repository, branch, whenLocked, record } = link
  try {
    const wasInserted = await transaction(db, async trx => {
      // Changes of the workspaces that share it wait, or are waited for.
      await afterPushes(trx, appId)
      await whenLocked?.(trx)
      const [row] = await trx('git_links')
        .insert({
          app_id: appId,
          user_id: userId,
          installation_id: installationId,
          repository_id: repository.id,
          full_name: repository.fullName,
          branch,
          clone_url: repository.cloneUrl,
        })
        .onConflict()
        .ignore()
        .returning('app_id')
      if (!row) return false
      await announceSources(trx, appId)
      await record?.(trx)
      return true
    })
    return wasInserted ? { kind: 'linked' } : await findConflict(db, link)
  } catch (error) {
    const { constraint = '' } = error as { constraint?: string }
    if (sqlState(error) === '23503') return { kind: 'gone', what: constraint.includes('app') ? 'app' : 'installation' }
    throw error
  }
}

async function findConflict(db: Db, link: NewLink): Promise<LinkOutcome> {
  const other = await db('git_links as l')
    .join('apps as a', 'a.id', 'l.app_id')
    .where({ 'l.repository_id': link.repository.id, 'l.branch': link.branch })
    .first('a.id', 'a.name', 'a.owner_id')
  if (other && other.id !== link.appId)
    return { kind: 'taken', appId: other.id, name: other.name, ownerId: other.owner_id }
  // Either this application has a link, or the other one was unlinked between the two statements.
  return (await isLinked(db, link.appId)) ? { kind: 'configured' } : linkRepository(db, link)
}

export async function isLinked(db: Db, appId: string): Promise<boolean> {
  return (await db('git_links').where({ app_id: appId }).first('app_id')) !== undefined
}

/** False when there was no link; `record` is a part of the transaction. */
export async function unlinkRepository(db: Db, appId: string, record?: (trx: Db) => Promise<void>): Promise<boolean> {
  return transaction(db, async trx => {
    const removed = await trx('git_links').where({ app_id: appId }).delete()
    if (removed === 0) return false
    await announceSources(trx, appId)
    await record?.(trx)
    return true
  })
}

const linkedApp = statement<{ id: string; owner_id: string }>(
  'git-links.of-push',
  `select a.id, a.owner_id
     from git_links l join apps a on a.id = l.app_id join users u on u.id = a.owner_id
    where l.repository_id = $1 and l.branch = $2 and l.installation_id = $3
      and a.desired_state <> 'deleted' and u.blocked_at is null
      and (l.user_id = a.owner_id or exists (
        select from workspace_apps s
          join workspace_members m on m.workspace_id = s.workspace_id and m.user_id = l.user_id
          join users by on by.id = m.user_id
         where s.app_id = a.id and m.role = any($4) and by.blocked_at is null))`,
)

/**
 * The live application that a push is for; undefined when none is linked to this branch by this installation, or the account that
 * linked it may no longer deploy it.
 */
export async function findAppOfPush(
  db: Db,
  { repositoryId, branch, installationId }: { repositoryId: number; branch: string; installationId: number },
): Promise<{ id: string; ownerId: string } | undefined> {
  const [app] = await linkedApp(db, [repositoryId, branch, installationId, deployingRoles])
  return app && { id: app.id, ownerId: app.owner_id }
}

/** An application's linked repository, and the installation that fetches it. */
export async function findLink(
  db: Db,
  appId: string,
): Promise<{ installationId: number; repositoryId: number; cloneUrl: string } | undefined> {
  const row = await db('git_links').where({ app_id: appId }).first()
  return (
    row && {
      installationId: Number(row.installation_id),
      repositoryId: Number(row.repository_id),
      cloneUrl: row.clone_url,
    }
  )
}
