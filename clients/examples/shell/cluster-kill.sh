node cluster.mjs &
sleep 2
kill -9 %1    # the server that leads, and to which the program writes
sleep 2
corvus --ServerUrl=http://127.0.0.1:8081 --DataDir=node-8081 &
wait %4       # for the program
