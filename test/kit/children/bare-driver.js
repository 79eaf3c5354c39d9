// Connects with the URL alone, as a driver does by default: accepted, or refused with its reason.
const connections = {
  async pg(url) {
    const { default: pg } = await import('pg')
    const client = new pg.Client(url)
    await client.connect()
  },
  async mysql2(url) {
    const { createConnection } = await import('mysql2/promise')
    await createConnection(url)
  },
  async ioredis(url) {
    const { Redis } = await import('ioredis')
    const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null })
    let reason
    client.on('error', error => {
      reason = error
    })
    await client.connect().catch(error => {
      throw reason ?? error
    })
  },
  async mongodb(url) {
    const { MongoClient } = await import('mongodb')
    await new MongoClient(url, { serverSelectionTimeoutMS: 10_000 }).db('admin').command({ ping: 1 })
  },
}

connections[process.argv[2]](process.env.URL)
  .then(
    () => 'accepted',
    error => `refused: ${error.message}`,
  )
  .then(outcome => process.stdout.write(outcome, () => process.exit()))
