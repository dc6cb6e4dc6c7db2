for port in 8081 8082 8083; do corvus --ServerUrl=http://127.0.0.1:$port --DataDir=node-$port & done
corvus cluster add http://127.0.0.1:8081 http://127.0.0.1:8082 http://127.0.0.1:8083 --database=shop
