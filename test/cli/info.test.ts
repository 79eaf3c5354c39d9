import test from 'ava'
import { infoText } from '../../cli/info.ts'

const info = {
  ...{
    base_url: 'http://127.0.0.1:4000',
    blob_url: 'b',
    s3_url: 's',
    files_url: 'f',
    public_url: 'p',
    edge_url: 'e',
    ai_url: 'a',
  },
  ...{
    apps_domain: 'apps.localhost',
    database_types: 'redis,postgres',
    api_key: 'a-key',
    session_token: null,
    user_id: 'u1',
  },
  ...{ temporal_address: '127.0.0.1:7233', temporal_ui_url: null, data_dir: '/srv/data' },
  database_url: 'postgres://berth:s3cr3t@db.example.org:5432/berth?sslmode=verify-full&sslrootcert=/etc/ca.pem',
}
const line = (text: string) => /^database_url +(.*)$/m.exec(text)?.[1]

test('the password of the database is shown only on request', t => {
  t.is(
    line(infoText(info)),
    'postgres://berth:***@db.example.org:5432/berth?sslmode=verify-full&sslrootcert=/etc/ca.pem',
  )
  t.is(line(infoText(info, { showSecrets: true })), info.database_url)
  t.regex(infoText(info), /^api_key +a-key$/m, 'the API key is always shown')
  t.regex(infoText(info), /^session_token +-$/m)
})

test('a password is hidden wherever an address has it; an address without one is unchanged', t => {
  const shown = (database_url: string) => line(infoText({ ...info, database_url }))
  t.is(shown('postgres://berth@127.0.0.1:5432/berth'), 'postgres://berth@127.0.0.1:5432/berth')
  t.is(shown('postgres://127.0.0.1/berth?user=b&password=s3cr3t'), 'postgres://127.0.0.1/berth?user=b&password=***')
  t.is(shown('postgres://berth:p%40ss@127.0.0.1/berth'), 'postgres://berth:***@127.0.0.1/berth')
  t.is(shown('no address: s3cr3t'), '***')
})
