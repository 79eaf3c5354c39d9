import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { type Connection, type ConnectionOptions, createConnection } from 'mysql2'
import { mysqlEngine } from '../../../../activities/databases/engines/mysql/mysql.ts'
import { within } from '../../../contracts/database-engine.ts'
import { engineContainer } from '../../../kit/databases/engine-container.ts'
import { mysqlClient, mysqlOptions, query, statementCode } from '../../../kit/databases/mysql-customer.ts'
import { mysqlEscapes, mysqlRefusal } from '../../../kit/databases/mysql-escapes.ts'

const container = engineContainer({ adapter: mysqlEngine, engine: 'mysql', version: '9', memoryMb: 1024 })
const database = () => container

test.before(async t => {
  t.timeout(1_500_000) // without a cache the image is made first
  const { prepare, locally } = await container
  await prepare()
  await locally(mysqlEngine.setPassword)
})
test.after.always(async () => (await container).clean())

/** The customer's options now, and a connection with them that is closed after the test. */
async function customer(t: ExecutionContext, change: ConnectionOptions = {}) {
  const { remote, secrets } = await database()
  const options = { ...mysqlOptions(remote, secrets().password), ...change }
  const connection = await mysqlClient(options)
  t.teardown(() => connection.destroy())
  return { connection, options }
}

async function isConfined(t: ExecutionContext, connection: Connection, account: string): Promise<void> {
  for (const statement of mysqlEscapes)
    t.regex(await statementCode(statement.replace(/\bme\b/, account), connection), mysqlRefusal, statement)
  const [file] = await query<{ text: null }>(connection, `SELECT LOAD_FILE('/etc/passwd') AS text`)
  t.is(file?.text, null)
}

test.serial('mysql: a customer can leave neither the server nor its rights', async t => {
  const { connection } = await customer(t, { database: 'default' })
  await isConfined(t, connection, `'default'@'%'`)
})

test.serial('mysql: users that a customer creates log in over TLS, and can do no more than it', async t => {
  const { connection, options } = await customer(t)
  await query(connection, `CREATE USER maker IDENTIFIED BY 'of-maker'`)
  const all =
    'SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, EXECUTE, TRIGGER, CREATE VIEW, CREATE ROUTINE, CREATE USER'
  await query(connection, `GRANT ${all} ON *.* TO maker WITH GRANT OPTION`)
  const maker = { ...options, user: 'maker', password: 'of-maker' }
  const { connection: made } = await customer(t, { ...maker, database: 'default' })
  await isConfined(t, made, 'maker')
  await t.throwsAsync(mysqlClient({ ...maker, ssl: undefined }), { code: 'ER_SECURE_TRANSPORT_REQUIRED' })

  const { rotate, remote, secrets } = await database()
  const closed = once(made, 'error')
  await rotate()
  await within(closed, 'a user of the customer is connected still')
  const { connection: next } = await customer(t, mysqlOptions(remote, secrets().password))
  await query(next, 'DROP USER maker')
})

/** A connection of the platform's, through the socket. */
const throughSocket = async <T>(user: string, work: (connection: Connection) => Promise<T>): Promise<T> => {
  const { locally } = await database()
  return locally(async ({ socket, secrets }) => {
    const connection = await mysqlClient({ socketPath: socket, user, password: secrets.password })
    return work(connection).finally(() => connection.destroy())
  })
}

test.serial('mysql: through the socket only processes of the platform are let in, each by its own account', async t => {
  const { runJob } = await database()
  const as = (user: string, ...more: string[]) =>
    runJob([
      'mysql',
      '--no-defaults',
      '--socket=/run/berth/mysqld.sock',
      `--user=${user}`,
      '--execute=SELECT 1',
      ...more,
    ])
  await as('berth_platform')
  for (const user of ['berth_host', 'root', 'default', 'mysql.session', ''])
    await t.throwsAsync(as(user), { message: /Access denied/ }, user)
  const user = await throughSocket('berth_host', connection => query(connection, 'SELECT CURRENT_USER() AS user'))
  t.deepEqual(user, [{ user: 'berth_host@localhost' }])
  for (const other of ['berth_platform', 'root', 'default'])
    await t.throwsAsync(
      throughSocket(other, async () => {}),
      { message: /^Access denied/ },
      other,
    )
  const accounts = await throughSocket('berth_host', connection =>
    query<{ user: string }>(connection, `SELECT user FROM mysql.user WHERE account_locked = 'N' ORDER BY user`),
  )
  t.deepEqual(
    accounts.map(({ user }) => user),
    ['berth_host', 'berth_platform', 'default'],
  )
})

test.serial('mysql: a customer cannot end a connection of the platform', async t => {
  const { connection } = await customer(t)
  await throughSocket('berth_host', async ours => {
    const [{ id } = {}] = await query(ours, 'SELECT CONNECTION_ID() AS id')
    for (const what of ['CONNECTION', 'QUERY'])
      t.is(await statementCode(`KILL ${what} ${id}`, connection), 'ER_KILL_DENIED_ERROR')
    t.deepEqual(await query(ours, 'SELECT 1 AS one'), [{ one: 1 }])
  })
})

test.serial(
  'mysql: whatever a customer did to its account, the next password is the only one that opens it',
  async t => {
    const { rotate, remote, secrets } = await database()
    const { connection: first } = await customer(t, { database: 'default' })
    await query(first, 'CREATE TABLE kept (n INT)')
    for (const statement of [
      `ALTER USER USER() IDENTIFIED BY 'second' RETAIN CURRENT PASSWORD`,
      // More specific than ours for the address that the network of containers shows.
      `CREATE USER 'default'@'10.%' IDENTIFIED BY 'shadow'`,
      `CREATE USER ''@'10.%' IDENTIFIED BY 'shadow'`,
      `ALTER USER 'default'@'%' ACCOUNT LOCK`,
      `ALTER USER 'default'@'%' REQUIRE X509`,
      `ALTER USER 'default'@'%' IDENTIFIED WITH auth_socket`,
      `ALTER USER 'default'@'%' REQUIRE NONE`,
      `ALTER USER 'default'@'%' PASSWORD EXPIRE`,
      `ALTER USER 'default'@'%' PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 365 DAY PASSWORD REQUIRE CURRENT`,
      `ALTER USER 'default'@'%' WITH MAX_QUERIES_PER_HOUR 1 MAX_USER_CONNECTIONS 1`,
      `REVOKE SELECT ON *.* FROM 'default'@'%'`,
      `RENAME USER 'default'@'%' TO 'renamed'@'%'`,
      `DROP USER 'default'@'%'`,
    ]) {
      const { connection } = await customer(t)
      t.is(await statementCode(statement, connection), 'allowed', statement)
      const former = await rotate()
      t.is(await mysqlEngine.login(remote, secrets().password), 'accepted', statement)
      for (const password of [former, 'second', 'shadow', ''])
        t.is(await mysqlEngine.login(remote, password), 'refused', statement)
      const { connection: next } = await customer(t, { database: 'default' })
      t.is(await statementCode('SELECT COUNT(*) FROM kept', next), 'allowed', statement)
      const accounts = await throughSocket('berth_host', ours =>
        query(ours, `SELECT host, ssl_type AS tls FROM mysql.user WHERE user = 'default'`),
      )
      t.deepEqual(accounts, [{ host: '%', tls: 'ANY' }])
    }
  },
)

test.serial('mysql: while its account is made anew, a customer has no more rights than before', async t => {
  const { rotate } = await database()
  const { connection: first } = await customer(t, { database: 'default' })
  await query(first, 'CREATE TABLE seen (name TEXT)')
  // For another user it runs with the rights that its definer has at each call.
  await query(first, 'CREATE PROCEDURE steal() INSERT INTO seen SELECT user FROM mysql.user')
  await query(first, `CREATE USER caller IDENTIFIED BY 'of-caller'`)
  await query(first, 'GRANT EXECUTE ON `default`.* TO caller')
  for (let time = 0; time < 3; time++) {
    const { connection } = await customer(t, { database: 'default', user: 'caller', password: 'of-caller' })
    let calls = 0
    const stealing = (async () => {
      for (; ; calls++)
        await statementCode('CALL steal()', connection).then(
          code => code.startsWith('ER_') || code === 'allowed' || ended(),
        )
    })().catch(() => 'the new password ended the connection')
    await rotate()
    await within(stealing, 'it steals still')
    t.true(calls > 5)
  }
  const { connection: last } = await customer(t, { database: 'default' })
  t.deepEqual(await query(last, 'SELECT DISTINCT name FROM seen'), [])
  await query(last, 'DROP PROCEDURE steal')
  await query(last, 'DROP USER caller')
})

const ended = (): never => {
  throw new Error('The connection has ended.')
}

test.serial('mysql: a login that began with the former password does not outlive it', async t => {
  const { rotate, remote, secrets } = await database()
  const former = secrets().password
  let ask = () => {}
  let answer = () => {}
  const asked = new Promise<void>(done => {
    ask = done
  })
  const given = new Promise<void>(done => {
    answer = done
  })
  /** Says that its first proof is wrong, and waits when the server then asks for the password itself. */
  const slowly = () => async (data: Buffer) => {
    if (data.length > 2) return Buffer.alloc(32)
    ask()
    await given
    return Buffer.from(`${former}\0`)
  }
  const options = { ...mysqlOptions(remote, former), authPlugins: { caching_sha2_password: slowly } }
  const late = createConnection(options as ConnectionOptions)
  const refusal = once(late, 'error')
  await within(asked, 'no password was asked for')
  await rotate()
  answer()
  const [error] = (await within(refusal, 'the login waits still')) as [Error]
  t.regex(error.message, /closed|ended/)
  late.on('error', () => {})
  late.destroy()
})

test.serial('mysql: a password is in no file of the server, and in no statement that others can see', async t => {
  const { rotate, secrets, folders, traits } = await database()
  const { connection } = await customer(t)
  const seen: string[] = []
  let over = false
  const watching = (async () => {
    while (!over) seen.push(JSON.stringify(await query(connection, 'SHOW FULL PROCESSLIST')))
  })().catch(() => 'the new password ended the connection')
  await rotate()
  over = true
  await watching
  t.true(seen.length > 0)
  const { password, platformPassword } = secrets()
  for (const text of seen) t.false(text.includes(password))
  const files = await readdir(folders.data, { recursive: true, withFileTypes: true })
  const paths = files.filter(file => file.isFile()).map(file => join(file.parentPath, file.name))
  t.true(paths.length > 20)
  for (const path of paths) {
    const bytes = await readFile(path)
    for (const secret of [password, platformPassword]) t.false(bytes.includes(secret), path)
  }
  for (const [name, text] of Object.entries(mysqlEngine.settings(traits, secrets())))
    for (const secret of [password, platformPassword]) t.false(text.includes(secret), name)
})
