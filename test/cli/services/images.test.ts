import test from 'ava'
import { prepareStandIn } from '../../../cli/services/images.ts'
import { databaseTestImages, needsDatabaseImages } from '../../../cli/test/database-images.ts'
import { parseConfig } from '../../../policy/config.ts'
import { recipes } from '../../../runtimes/recipes.ts'

test('tests use every image of a database that can be built, and the stand-in instead of MongoDB', t => {
  const built = recipes('x64').map(({ image }) => image)
  const images = databaseTestImages()
  t.deepEqual(
    images.filter(image => !built.includes(image)),
    [],
  )
  t.deepEqual(images, [
    'berth/postgres:17',
    'berth/redis:8',
    'berth/redis:7',
    'berth/mysql:9',
    'berth/mongo-stand-in:8',
  ])
})

test('only runs with tests of databases wait for their images', t => {
  for (const files of [
    [],
    ['test'],
    ['./test/**'],
    ['test/db/apps.test.ts', 'test/activities/databases/redis/redis.test.ts'],
  ])
    t.true(needsDatabaseImages(files), files.join())
  for (const files of [['test/house.test.ts'], ['test/api/v1/**/*.test.ts']])
    t.false(needsDatabaseImages(files), files.join())
})

test('a start with the stand-in says so, and one without says nothing', async t => {
  const said: string[] = []
  const settings = (env: Record<string, string>) => parseConfig(env, '/').databases
  await prepareStandIn(settings({}), line => said.push(line))
  t.deepEqual(said, [])
  await prepareStandIn(settings({ MONGO_STAND_IN: 'on' }), line => said.push(line))
  t.regex(said[0]!, /stand-in .* SecantusDB, which is beta software/)
})
