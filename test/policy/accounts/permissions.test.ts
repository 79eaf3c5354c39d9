import test from 'ava'
import { mayGrant, permissions, permits, roles } from '../../../policy/accounts/permissions.ts'
import { covers } from '../../../policy/accounts/scopes.ts'

test('roles have the permissions of the contract', t => {
  const table = Object.fromEntries(
    Object.keys(permissions).map(name => [name, roles.filter(role => permits(role, name as keyof typeof permissions))]),
  )
  t.deepEqual(table.read, ['view', 'manager', 'maintain', 'admin', 'owner'])
  t.deepEqual(table.control, ['manager', 'maintain', 'admin', 'owner'])
  t.deepEqual(table.files, ['maintain', 'admin', 'owner'])
  t.deepEqual(table.envs, ['admin', 'owner'])
  t.deepEqual(table.delete, ['owner'])
})

test('a key covers its scopes; without a list it covers everything; a row without a scope needs such a key', t => {
  t.true(covers(null, 'apps:read'))
  t.true(covers(null, null))
  t.true(covers(['apps:read'], 'apps:read'))
  t.false(covers(['apps:read'], 'apps:write'))
  t.false(covers(['apps:read'], null))
  t.false(covers([], 'apps:read'))
})

test('a key can grant the roles whose permissions its scopes cover', t => {
  const granted = (list: readonly string[] | null) => roles.filter(role => mayGrant(list, role))
  t.deepEqual(granted(null), [...roles])
  t.deepEqual(granted(['workspaces:manage']), [])
  const steps: [role: (typeof roles)[number], more: string[]][] = [
    ['view', ['apps:read']],
    ['manager', ['apps:control']],
    ['maintain', ['apps:deploy', 'apps:write', 'files:read', 'files:write']],
    ['admin', ['envs:read', 'envs:write', 'snapshots:read', 'snapshots:write']],
  ]
  const list = ['workspaces:manage']
  for (const [n, [role, more]] of steps.entries()) {
    for (const scope of more) {
      t.false(granted(list).includes(role), `${role} without ${scope}`)
      list.push(scope)
    }
    t.deepEqual(granted(list).slice(0, n + 1), roles.slice(0, n + 1))
  }
})
