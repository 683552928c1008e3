// aedes HOST PORT: the aedes library as a broker, with its own defaults unless AEDES_OPTIONS, a JSON
// object, says otherwise. aedes --version prints the library's version.
'use strict'
const { readFileSync } = require('node:fs')
const net = require('node:net')
const path = require('node:path')

if (process.argv[2] === '--version') {
  const file = path.join(path.dirname(require.resolve('aedes')), 'package.json')
  console.log(JSON.parse(readFileSync(file, 'utf8')).version)
  process.exit(0)
}

async function main ([host, port]) {
  const { Aedes } = require('aedes')
  const broker = await Aedes.createBroker(JSON.parse(process.env.AEDES_OPTIONS || '{}'))
  const server = net.createServer(broker.handle)
  server.on('error', (error) => {
    console.error(`cannot listen on ${host}:${port}: ${error.message}`)
    process.exit(1)
  })
  server.listen({ host, port: Number(port), backlog: 1024 })
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => process.exit(0))
  }
}

main(process.argv.slice(2))
