import test, { type ExecutionContext } from 'ava'
import type { Connection } from 'mysql2'
import { DumpPrevented } from '../../../../activities/databases/contents.ts'
import { contentsOf } from '../../../../activities/databases/engines/contents.ts'
import { type MysqlVisitor, readContents } from '../../../../activities/databases/engines/mysql/contents/digest.ts'
import { mysqlEngine } from '../../../../activities/databases/engines/mysql/mysql.ts'
import { mysqlSession } from '../../../../activities/databases/engines/mysql/mysql-session.ts'
import { pause } from '../../../../lib/async/loop.ts'
import { type ContentsUnderTest, databaseContentsContract } from '../../../contracts/database-contents.ts'
import type { DigestsOfCopy } from '../../../kit/databases/copies.ts'
import type { EngineContainer } from '../../../kit/databases/engine-container.ts'
import { mysqlClient, mysqlOptions, query } from '../../../kit/databases/mysql-customer.ts'

async function customer<T>(
  { remote, secrets }: EngineContainer,
  work: (run: (statement: string) => Promise<Record<string, unknown>[]>, connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await mysqlClient({ ...mysqlOptions(remote, secrets().password), supportBigNumbers: true })
  try {
    return await work(statement => query(connection, statement), connection)
  } finally {
    connection.destroy()
  }
}

const run = (database: EngineContainer, statements: readonly string[]): Promise<void> =>
  customer(database, async execute => {
    for (const statement of statements)
      await execute(statement).catch(error => {
        throw new Error(`${statement.slice(0, 200)}: ${error.message}`, { cause: error })
      })
  })

const change =
  (...statements: string[]) =>
  (database: EngineContainer): Promise<void> =>
    run(database, statements)

const oddName = '`we\'ird "na`` me; -- ä 日本`'
const awkward = "X'000109'"
const everyByte = `X'${Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('hex')}'`

const tables = [
  'CREATE DATABASE `other-db%` CHARACTER SET latin1',
  'CREATE DATABASE vacant COLLATE utf8mb4_bin',
  'CREATE DATABASE `/*!40100 DEFAULT CHARACTER SET latin1 */` COLLATE utf8mb4_bin',
  `CREATE TABLE \`default\`.kinds (
    id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, f FLOAT, d DOUBLE, n DECIMAL(65,30), b BIT(64), flag BOOLEAN, y YEAR,
    e ENUM('', 'a''b', 'ü'), s SET('x','y','z'), day DATE, at DATETIME(6), stamp TIMESTAMP(6) NULL, span TIME(6),
    c CHAR(10), v VARCHAR(200), t LONGTEXT, bin BINARY(4), vb VARBINARY(300), bl LONGBLOB, j JSON, g GEOMETRY SRID 4326, ve VECTOR(3),
    doubled DOUBLE GENERATED ALWAYS AS (d / 2) VIRTUAL, kept VARCHAR(210) AS (CONCAT(v, '!')) STORED, hidden INT INVISIBLE DEFAULT 7,
    made DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE KEY \`u\`\`k\` (v(20)), FULLTEXT (t), CHECK (y > 1900 OR y IS NULL)
  ) COMMENT='a ''comment'' AUTO_INCREMENT=5'`,
  `CREATE TABLE \`other-db%\`.latin (id INT PRIMARY KEY, l VARCHAR(50) CHARACTER SET latin1, g VARCHAR(50) CHARACTER SET gbk, u VARCHAR(50) CHARACTER SET utf16)`,
  `CREATE TABLE \`default\`.${oddName} (\`col \`\` ' " ä\` TEXT, other INT)`,
  'CREATE TABLE `default`.nothing (a INT, b TEXT)',
  'CREATE TABLE `default`.parents (id INT PRIMARY KEY)',
  'CREATE TABLE `default`.children (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE, other INT, FOREIGN KEY (other) REFERENCES children (id))',
  "CREATE TABLE `default`.parts (id INT, day DATE, PRIMARY KEY (id, day)) PARTITION BY RANGE COLUMNS (day) (PARTITION old VALUES LESS THAN ('2020-01-01'), PARTITION rest VALUES LESS THAN (MAXVALUE))",
  'CREATE TABLE `default`.bare (n INT)',
]

const rows = [
  `INSERT INTO \`default\`.kinds (id, f, d, n, b, flag, y, e, s, day, at, stamp, span, c, v, t, bin, vb, bl, j, g, ve, made) VALUES
    (1, 1.2345678, 0.1, 12345678901234567890123456789012345.123456789012345678901234567891, b'1000000000000000000000000000000000000000000000000000000000000001',
     true, 1999, 'a''b', 'x,z', '9999-12-31', '2024-02-29 23:59:59.999999', '2024-03-31 01:30:00.000001', '-838:59:59',
     'a ', 'ä — 日本 🐘', 'line\\nand ''quote'' "and" \\\\ back\\0slash\\r\\Z; -- no comment', ${awkward}, ${everyByte}, ${everyByte},
     '{"a": [1, 2.5, null, "ü\\\\n"]}', ST_GeomFromText('POINT(52.5 13.4)', 4326), STRING_TO_VECTOR('[1,2.5,-3e10]'), '2024-01-01')`,
  `INSERT INTO \`default\`.kinds (id, f, d, e, v, t, made) VALUES (18446744073709551614, 3.4e38, 1.7976931348623157e308, '', '', '', '2024-01-01')`,
  `INSERT INTO \`default\`.kinds (id, f, d, v, t, bl, made) VALUES (3, -1.17549e-38, 5e-324, NULL, REPEAT('long 🐘', 300000), REPEAT(X'00FF0A', 1000000), '2024-01-01')`,
  "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
  "INSERT INTO `default`.kinds (id, day, e, v, made) VALUES (0, '0000-00-00', 9, 'zero', '2024-01-01')",
  'SET sql_mode = DEFAULT',
  `INSERT INTO \`other-db%\`.latin VALUES (1, 'ä€', '中文\\\\', '🐘'), (2, '''', NULL, '')`,
  `INSERT INTO \`default\`.${oddName} VALUES ('x', 1), (NULL, NULL), ('', 0), ('x', 1), (', ', 2)`,
  'INSERT INTO `default`.parents VALUES (1), (2)',
  'INSERT INTO `default`.children VALUES (2, 1, NULL), (1, 1, 2)',
  "INSERT INTO `default`.parts VALUES (1, '2019-01-01'), (2, '2024-01-01')",
  'INSERT INTO `default`.bare VALUES (1), (1), (2), (NULL)',
]

const programs = [
  'USE `default`',
  "CREATE FUNCTION single(x TEXT) RETURNS TEXT DETERMINISTIC RETURN CONCAT(x, ';', '//', '日本')",
  "CREATE PROCEDURE several() COMMENT 'it''s' BEGIN DECLARE i INT DEFAULT 0; /* DELIMITER ; */ WHILE i < 3 DO SET i = i + 1; END WHILE; SELECT i AS i; END",
  "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
  'CREATE PROCEDURE "quo`ted"() SELECT \'a\' || \'b\' AS "c"',
  'SET sql_mode = DEFAULT',
  'CREATE VIEW zz AS SELECT id, v, single(v) AS s FROM kinds',
  'CREATE ALGORITHM=MERGE SQL SECURITY INVOKER VIEW aa AS SELECT z.id, z.s COLLATE utf8mb4_bin AS c FROM zz z WHERE z.id > 0 WITH CHECK OPTION',
  'CREATE VIEW `other-db%`.across AS SELECT l.l, p.id FROM `other-db%`.latin l JOIN `default`.aa p',
  'CREATE TABLE short (n INT)',
  'CREATE VIEW broken AS SELECT n FROM short',
  'CREATE VIEW `on broken` AS SELECT n FROM broken',
  'DROP TABLE short',
  'CREATE TABLE short (other INT)',
  'CREATE VIEW `without column` AS SELECT other FROM short',
  'ALTER TABLE short RENAME COLUMN other TO another',
  'CREATE TRIGGER second BEFORE INSERT ON bare FOR EACH ROW SET NEW.n = NEW.n * 2',
  'CREATE TRIGGER first BEFORE INSERT ON bare FOR EACH ROW PRECEDES second SET NEW.n = NEW.n + 1',
  "CREATE TRIGGER `default`.log AFTER DELETE ON bare FOR EACH ROW BEGIN INSERT INTO nothing VALUES (OLD.n, ';'); END",
  "CREATE EVENT cleaning ON SCHEDULE EVERY 1 SECOND STARTS '2020-01-01 00:00:00' DO DELETE FROM nothing",
  "CREATE EVENT later ON SCHEDULE AT '2037-01-01 00:00:00' ON COMPLETION PRESERVE DISABLE COMMENT 'why' DO SELECT 1",
  "CREATE EVENT once ON SCHEDULE AT '2037-01-01 00:00:00' DO SELECT 1",
  // A program keeps the collation of a database that has changed since.
  ...['other-db%', '/*!40100 DEFAULT CHARACTER SET latin1 */'].flatMap(database => [
    `CREATE PROCEDURE \`${database}\`.before_it() SELECT 1`,
    `ALTER DATABASE \`${database}\` COLLATE ${database === 'other-db%' ? 'latin1_bin' : 'utf8mb4_unicode_ci'}`,
    `CREATE PROCEDURE \`${database}\`.after_it() SELECT 1`,
  ]),
]

const users = [
  "CREATE USER reader@'%' IDENTIFIED BY 'of-reader-7f3a' REQUIRE SSL WITH MAX_USER_CONNECTIONS 5",
  "CREATE USER 'o''dd'@'10.%' IDENTIFIED BY 'of-odd-91bc' ACCOUNT LOCK",
  'CREATE ROLE analysts',
  'GRANT SELECT ON `default`.* TO analysts',
  'GRANT SELECT (id, v), UPDATE (v) ON `default`.kinds TO reader',
  'GRANT EXECUTE ON PROCEDURE `default`.several TO reader WITH GRANT OPTION',
  "GRANT SELECT ON *.* TO 'o''dd'@'10.%'",
  'GRANT SELECT ON `default`.broken TO reader',
  'GRANT SELECT ON `default`.short TO reader',
  'DROP TABLE `default`.short',
]

/** What customers may not do yet, done for them. */
const byPlatform =
  (...statements: string[]) =>
  ({ locally }: EngineContainer): Promise<void> =>
    locally(local =>
      mysqlSession(local, 10, async session => {
        for (const statement of statements) await session.rows(statement)
      }),
    )

const giveRoles = byPlatform('GRANT analysts TO reader', 'SET DEFAULT ROLE analysts TO reader')

async function found(t: ExecutionContext, database: EngineContainer): Promise<void> {
  const readers = { ...mysqlOptions(database.remote, ''), user: 'reader' }
  for (const password of ['', 'of-reader-7f3a'])
    t.is(await mysqlClient({ ...readers, password }).catch(error => error.code), 'ER_ACCESS_DENIED_ERROR')
  await customer(database, async execute => {
    const [kinds] = await execute(
      'SELECT *, f * 1e0 AS exact, HEX(vb) AS every, ST_AsText(g) AS place FROM `default`.kinds WHERE id = 1',
    )
    t.is(kinds!.v, 'ä — 日本 🐘')
    t.is(kinds!.t, 'line\nand \'quote\' "and" \\ back\0slash\r\x1a; -- no comment')
    t.is(kinds!.exact, Math.fround(1.2345678))
    t.is(kinds!.kept, 'ä — 日本 🐘!')
    t.is(String(kinds!.every).length, 512)
    t.is(kinds!.place, 'POINT(52.5 13.4)')
    t.is((await execute("SELECT COUNT(*) AS n FROM `default`.kinds WHERE t = REPEAT('long 🐘', 300000)"))[0]!.n, 1)
    t.deepEqual(await execute('SELECT i.l, i.id FROM `other-db%`.across i ORDER BY id, l DESC LIMIT 1'), [
      { l: 'ä€', id: 1 },
    ])
    await execute('USE `default`')
    t.is((await execute("SELECT single('a') AS s"))[0]!.s, 'a;//日本')
    t.deepEqual((await execute('CALL `quo``ted`()'))[0], [{ c: 'ab' }])
    await execute('START TRANSACTION')
    await execute('INSERT INTO bare VALUES (1)')
    t.is((await execute('SELECT MAX(n) AS n FROM bare'))[0]!.n, 4)
    await t.throwsAsync(execute('INSERT INTO children VALUES (9, 9, 9)'), { message: /foreign key/ })
    await execute('ROLLBACK')
    t.deepEqual(
      (await execute('SHOW EVENTS')).map(({ Name }) => Name),
      ['cleaning', 'later', 'once'],
    )
    await execute("ALTER USER reader IDENTIFIED BY 'another'")
  })
  const grants = await database.locally(local =>
    mysqlSession(local, 10, async session => (await session.rows('SHOW GRANTS FOR reader')).map(String)),
  )
  t.true(grants.includes('GRANT SELECT (`id`, `v`), UPDATE (`v`) ON `default`.`kinds` TO `reader`@`%`'))
  t.true(grants.includes('GRANT `analysts`@`%` TO `reader`@`%`'))
  const reader = await mysqlClient({ ...readers, password: 'another' })
  t.deepEqual(await query(reader, 'SELECT COUNT(*) AS n FROM `default`.parents'), [{ n: 2 }])
  reader.destroy()
}

const mysql: ContentsUnderTest = {
  adapter: mysqlEngine,
  contents: contentsOf('mysql'),
  engine: 'mysql',
  version: '9',
  memoryMb: 1024,
  files: ['contents.sql', 'users.json', 'SHA256SUMS'],
  digestOfDump: true,
  found,
  async write(database) {
    await run(database, [...tables, ...rows, ...programs, ...users])
    await giveRoles(database)
  },
  async writeOtherwise(database) {
    await run(database, [
      ...tables.slice(0, 2),
      'SET foreign_key_checks = 0',
      ...tables.slice(2).reverse(),
      ...rows.slice(5).reverse(),
      ...rows.slice(3, 6),
      ...rows.slice(0, 3).reverse(),
      'DELETE FROM `default`.bare',
      'INSERT INTO `default`.bare VALUES (NULL), (2), (1), (1)',
      ...programs,
      ...users,
    ])
    await giveRoles(database)
  },
  changes: {
    'a value': change("UPDATE `default`.kinds SET c = 'b' WHERE id = 1"),
    'NULL for an empty text': change("UPDATE `default`.kinds SET v = NULL WHERE v = ''"),
    'the last bit of a FLOAT': change('UPDATE `default`.kinds SET f = 1.2345679 WHERE id = 1'),
    'the last bit of a DOUBLE': change('UPDATE `default`.kinds SET d = 0.10000000000000002 WHERE id = 1'),
    'the last byte of a large value': change(
      "UPDATE `default`.kinds SET bl = CONCAT(LEFT(bl, LENGTH(bl) - 1), 'x') WHERE id = 3",
    ),
    'no value of an ENUM for its empty one': change("UPDATE `default`.kinds SET e = '' WHERE id = 0"),
    'a row less': change('DELETE FROM `default`.bare WHERE n IS NULL'),
    'two equal rows for two others': change('UPDATE `default`.bare SET n = 5 WHERE n = 1'),
    'values of two columns that change places': change("UPDATE `default`.kinds SET c = 'v', v = 'c' WHERE id = 1"),
    'an index': change('CREATE INDEX more ON `default`.bare (n)'),
    'a default': change('ALTER TABLE `default`.bare ALTER n SET DEFAULT 4'),
    'a comment': change("ALTER TABLE `default`.kinds COMMENT='a ''comment'' AUTO_INCREMENT=6'"),
    'a table': change('CREATE TABLE `default`.new (n INT)'),
    'an empty database': change('CREATE DATABASE new'),
    'a collation': change('ALTER DATABASE vacant COLLATE utf8mb4_general_ci'),
    'a view': change('CREATE OR REPLACE VIEW `default`.zz AS SELECT id, v, 1 AS s FROM `default`.kinds'),
    'a routine': change('DROP FUNCTION `default`.single'),
    'the order of triggers': change(
      'DROP TRIGGER `default`.first',
      'CREATE TRIGGER `default`.first BEFORE INSERT ON `default`.bare FOR EACH ROW SET NEW.n = NEW.n + 1',
    ),
    'an event': change('ALTER EVENT `default`.cleaning DISABLE'),
    'a user': change("CREATE USER new IDENTIFIED BY 'of-new'"),
    'a right': change('GRANT SELECT ON `default`.parents TO new'),
    'a role of the main user': byPlatform('GRANT analysts TO `default`'),
    'a lock': change('ALTER USER new ACCOUNT LOCK'),
    'a database less': change('DROP DATABASE `other-db%`'),
  },
  async secrets() {
    return ['of-reader-7f3a', 'of-odd-91bc', '$A$005$', '$A$00A$', '2441243030']
  },
}

const { serving, copying, copiedDigests } = databaseContentsContract(test.serial, 'mysql 9', () => mysql)

test.serial('mysql 9: a dump is one moment, while others write', async t => {
  const database = await serving()
  await customer(database, async execute => {
    for (const name of ['a', 'm', 'z']) await execute(`CREATE TABLE \`default\`.${name} (n INT, t LONGBLOB)`)
    for (let number = 0; number < 20; number++)
      await execute(`INSERT INTO \`default\`.m VALUES (1, REPEAT('x', 2000000))`)
  })
  let ended = false
  let written = 0
  const writing = customer(database, async execute => {
    for (; !ended; written++) {
      await execute('START TRANSACTION')
      for (const name of ['a', 'z']) await execute(`INSERT INTO \`default\`.${name} (n) VALUES (${written})`)
      await execute('COMMIT')
    }
  })
  while (written < 5) await pause(10)
  const before = written
  const dumpEnded = async () => {
    t.true(written > before)
    ended = true
    await writing
  }
  const check = async (copy: EngineContainer, digests: DigestsOfCopy) => {
    t.is(digests.dump, digests.copy)
    const [counts] = await customer(copy, execute =>
      execute('SELECT (SELECT COUNT(*) FROM `default`.a) AS a, (SELECT COUNT(*) FROM `default`.z) AS z'),
    )
    t.true(Number(counts!.a) >= before)
    t.is(counts!.a, counts!.z)
  }
  await copying(database, check, dumpEnded)
})

test.serial(
  'mysql 9: a dump is good of tables without transactions, and of small ones, that change while later ones are read',
  async t => {
    const database = await serving()
    await run(database, [
      'CREATE TABLE `default`.a (n INT) ENGINE=MyISAM',
      'CREATE TABLE `default`.b (n INT) ENGINE=MEMORY',
      'CREATE TABLE `default`.c (n INT)',
      'CREATE TABLE `default`.d (n INT)',
      'CREATE TABLE `default`.e (n INT)',
    ])
    const before = await database.locally(mysql.contents.digest)
    const changes = [
      ...['a', 'b', 'd'].map(name => `INSERT INTO \`default\`.${name} VALUES (1)`),
      'ALTER TABLE `default`.c ADD other INT',
    ]
    const large = ['a', 'd']
    const visitor: MysqlVisitor = {
      ...{ database() {}, program() {}, readOnly() {} },
      async table({ name }) {
        if (name === 'e') await run(database, changes)
        return large.includes(name) ? Number.POSITIVE_INFINITY : 0
      },
    }
    const digest = await database.locally(local =>
      mysqlSession(local, 60, async session => (await readContents(session, visitor)).digest()),
    )
    t.is(digest, before)
    t.not(await database.locally(mysql.contents.digest), before)
  },
)

test.serial('mysql 9: a database that defines more than its host can have in memory is not read', async t => {
  const database = await serving()
  const procedures = (from: number, to: number) =>
    customer(database, async execute => {
      await execute('USE `default`')
      for (let n = from; n <= to; n++) await execute(`CREATE PROCEDURE p${n}() SELECT '${'x'.repeat(5_000_000)}'`)
    })
  const digest = () => database.locally(mysql.contents.digest)
  await procedures(1, 10)
  await t.notThrowsAsync(digest())
  await procedures(11, 30)
  const message = 'The database cannot be compared: what it defines has more than 128 MB.'
  await t.throwsAsync(digest(), { instanceOf: DumpPrevented, message })
})

test.serial(
  'mysql 9: users with names of the server at other hosts, and with words of a statement in their names, are copied',
  async t => {
    const database = await serving()
    const names = ["'root'@'%'", "'berth_host'@'10.%'", "'berth_platform'@'10.%'", "'a` REQUIRE b'@'%'"]
    await run(
      database,
      names.map(name => `CREATE USER ${name} IDENTIFIED BY RANDOM PASSWORD REQUIRE SSL`),
    )
    const shown = (of: EngineContainer, name: string) =>
      of.locally(local =>
        mysqlSession(local, 60, async session => String((await session.rows(`SHOW CREATE USER ${name}`))[0]![0])),
      )
    await copying(database, async (copy, digests) => {
      t.is(digests.dump, digests.copy)
      for (const name of names) t.regex(await shown(copy, name), /REQUIRE SSL/, name)
    })
  },
)

test.serial(
  'mysql 9: whatever the owner does to accounts with the name of its main user, a snapshot is good',
  async t => {
    const database = await serving()
    const digest = await database.locally(mysql.contents.digest)
    const deeds = {
      'another one of that name': byPlatform("CREATE USER 'default'@'10.%'"),
      'with a role': byPlatform("CREATE ROLE 'default'@'x'", "GRANT 'default'@'x' TO 'default'@'10.%'"),
      'none with its rights': byPlatform("DROP USER 'default'@'%'"),
    }
    for (const [what, deed] of Object.entries(deeds)) {
      await deed(database)
      t.deepEqual(await copiedDigests(database), { dump: digest, copy: digest }, what)
    }
    await database.locally(mysqlEngine.setPassword)
    t.is(await database.locally(mysql.contents.digest), digest, 'another password makes it as it was')
    await byPlatform("RENAME USER 'default'@'%' TO 'owner'@'%'")(database)
    await copying(database, async (_, digests) => t.is(digests.dump, digests.copy, 'renamed'))
  },
)
